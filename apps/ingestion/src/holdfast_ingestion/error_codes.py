"""The app's own error codes; those of fetching come from `holdfast.fetch`."""

from holdfast.errors import Category, ErrorInfo

NOTHING_TO_READ = "NOTHING_TO_READ"
UNSUPPORTED_TYPE = "UNSUPPORTED_TYPE"
EMPTY_CONTENT = "EMPTY_CONTENT"
EMPTY_SEARCH = "EMPTY_SEARCH"
SEARCH_TOO_LONG = "SEARCH_TOO_LONG"
SEMANTIC_SEARCH_OFF = "SEMANTIC_SEARCH_OFF"
MODEL_KEY_REFUSED = "MODEL_KEY_REFUSED"

DECLARED = (
    ErrorInfo(NOTHING_TO_READ, "There is no text in this document.", 422),
    ErrorInfo(UNSUPPORTED_TYPE, "Documents of this type cannot be read.", 415),
    ErrorInfo(EMPTY_CONTENT, "The content is empty.", 400),
    ErrorInfo(EMPTY_SEARCH, "Type a word to search for.", 400),
    ErrorInfo(SEARCH_TOO_LONG, "This is too long to search for.", 400),
    ErrorInfo(SEMANTIC_SEARCH_OFF, "Search by meaning is not set up here.", 409),
    ErrorInfo(MODEL_KEY_REFUSED, "The model refuses its key.", 502, Category.TRANSIENT),
)
