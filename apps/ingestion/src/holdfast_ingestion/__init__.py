"""Documents by address or text: fetched, extracted, indexed and found."""
