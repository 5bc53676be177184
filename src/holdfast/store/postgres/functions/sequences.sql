-- Logical replication copies rows and no sequences. Set ours past every row, before a subscriber is
-- used in place of its publisher. Does no harm elsewhere: no number falls.
CREATE OR REPLACE FUNCTION holdfast.advance_sequences() RETURNS void
LANGUAGE sql VOLATILE AS $$
    SELECT setval('holdfast.event_sequence', 10000 * (1 + greatest(
        last_value,
        (SELECT max(sequence) FROM holdfast.history),
        (SELECT max(seq) FROM holdfast.jobs)
    ) / 10000))
    FROM holdfast.event_sequence;
    SELECT setval(
        'holdfast.lanes_id_seq', greatest(last_value, (SELECT max(id) FROM holdfast.lanes))
    )
    FROM holdfast.lanes_id_seq;
    SELECT setval(
        'holdfast.worker_sessions', greatest(last_value, (SELECT max(session) FROM holdfast.workers))
    )
    FROM holdfast.worker_sessions;
    SELECT setval(
        'holdfast.outbox_seq_seq', greatest(last_value, (SELECT max(seq) FROM holdfast.outbox))
    )
    FROM holdfast.outbox_seq_seq;
$$;
