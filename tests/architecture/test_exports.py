"""The exported names of the public packages, as a reviewed list."""

import ast
import importlib
import importlib.metadata
import types

import pytest

import holdfast

REVIEWED = {
    "holdfast": """
        AbandonedLimitError ApiKey App AppTables AttemptFinished AttemptTimeout BlockingEngine
        BreakerPolicy Category ChildError CircuitBreaker CircuitOpenError CircuitSnapshot
        CircuitState Clock ConcurrencyLimit ConcurrencyLimitError ConstraintViolated
        ContextError CreatedKey Database DatabaseTransaction DeadlineExceeded Downstream Engine
        Erased ErrorCode ErrorInfo Exponential FailedAttempt HeldBy HoldfastError IntakePause
        InvalidState Job JobContext JobFailed JobFilter JobHandle JobRequest JobStatus
        JobsStillRun LastError LifespanFailed LimitedOwner LostLease NotReady OwnerLimits OwnerUse
        PauseState PayloadTooLarge PeriodicSchedule Permanent RateLimit
        RateLimitedError Retention RetryBudget RetryLater RetryMetrics RetryPolicy RetryResult
        RetryService ScheduleBusy SharedRate StopReason StorageExceeded StoreError StoreUnavailable
        SystemClock TooManyJobs TransactionTooLong UndeclaredKinds UnknownJob UnknownKey UnknownKind
        UnknownQueue UnknownSchedule UnknownWebhook UnknownWorker UnwantedResult ValidationError
        WaitFunction WaitTimeout Webhook WebhookDelivery WorkerOptions WorkerRecord cancelled
        categorize diagnose presets remaining retry_after
    """,
    "holdfast.backup": "BackupDamaged BackupError Manifest back_up restore",
    "holdfast.children": """
        BrokenFrame ChildDied ChildFailed ChildLimits ChildPool ChildProcess ChildSpec
        ConfinedFunction Death FrameKind MEGABYTE NoChildFree RequestServer json_answer
        request_server
    """,
    "holdfast.errors": """
        AbandonedLimitError AttemptTimeout Category CircuitOpenError ConcurrencyLimitError
        DeadlineExceeded ERRORS ErrorCode ErrorInfo HoldfastError Permanent RateLimitedError
        RetryLater UnwantedResult error_code stored_code
    """,
    "holdfast.fetch": """
        FETCH_ERRORS FetchCode FetchError FetchLimits FetchResponse Fetched Fetcher
        PermanentFetchError Resolver Url allows_private sniff_charset
    """,
    "holdfast.files": "Artifact ArtifactStore Draft delete_unreferenced",
    "holdfast.http": """
        ApiError AppPages Caller CallerIdentity DiskRoom Sidecar Download ErrorOut FactFormat
        HttpSettings IntakeGate JobAnswer JobFact JobFacts JobOut Look MessageQueue NavItem Owner
        PagePart RenderedJobs RenderedRow ServedApp ServerState ShownFact Step create_app meta_of
        ops_dashboard state_of
    """,
    "holdfast.providers": """
        ChatMockClient CommitUnknown GeminiClient InvalidAnswer is_setup_error
        with_database_retry with_database_retry_sync with_database_transaction
        with_database_transaction_sync
    """,
    "holdfast.messaging": """
        Consumer DeadLetterQueue DeadMessage Delivery JobPublisher QueueSpec RabbitPublisher
        UnknownDeadMessage
    """,
    "holdfast.telemetry.prometheus": """
        PrometheusListener RelayCollector StoreMetrics exposed process_registry
    """,
    "holdfast.telemetry.tracing": "Tracing",
    "holdfast.messaging.celery": "AlreadyHandled NotConnected ReliableTask TaskEvent connect",
    "holdfast.outbox": """
        Backlog BadMessage BlockingHandling BlockingInbox BlockingOutbox Handling Inbox MessageClaim
        MessageDraft MessageNotFailed MessagePage MessageRefused MessageStatus MessageUnconfirmed
        Outbox OutboxMessage
        Publisher PublisherMisconfigured PublisherUnavailable Relay RelayOptions Release
        RequestClaim RequestStart StartState UnknownMessage
    """,
    "holdfast.webhooks": "Answer DELIVERY_ERRORS Sender sign webhooks_app",
    "holdfast.settings": "BadSetting Environment Settings check_tokens named_tokens unknown_names",
}
"""Every module that an app may import, and all names that it may take from it."""

EVERY = pytest.mark.parametrize("name", REVIEWED)


@EVERY
def test_the_exported_names_are_the_reviewed_ones(name):
    assert sorted(importlib.import_module(name).__all__) == sorted(REVIEWED[name].split())


@EVERY
def test_the_export_list_holds_no_name_twice_and_every_name_is_there(name):
    module = importlib.import_module(name)

    assert len(module.__all__) == len(set(module.__all__))
    assert [each for each in module.__all__ if not hasattr(module, each)] == []


@pytest.mark.parametrize(
    "name",
    [
        "holdfast",
        "holdfast.children",
        "holdfast.fetch",
        "holdfast.files",
        "holdfast.http",
        "holdfast.providers",
    ],
)
def test_a_package_has_no_public_name_outside_its_export_list(name):
    module = importlib.import_module(name)

    assert [
        each
        for each, value in vars(module).items()
        if not each.startswith("_")
        and each not in module.__all__
        and not isinstance(value, types.ModuleType)
    ] == []


def test_apps_import_only_reviewed_names(root):
    found = []
    for path in sorted((root / "apps").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                taken = [(alias.name, None) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                taken = [(node.module or "", alias.name) for alias in node.names]
            else:
                continue
            found += [
                f"{path.name}: {module} {name}"
                for module, name in taken
                if module.partition(".")[0] == "holdfast"
                and name not in REVIEWED.get(module, "").split()
            ]
    assert found == []


def test_the_version_is_that_of_the_installed_distribution():
    assert holdfast.__version__ == importlib.metadata.version("holdfast")
