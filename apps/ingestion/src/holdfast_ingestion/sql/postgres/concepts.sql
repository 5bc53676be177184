-- fragment: extractions
ingestion.extractions

-- fragment: mentions
ingestion.mentions

-- fragment: relations
ingestion.relations

-- fragment: found_in_name
strpos(normalised, CAST(:query AS text)) > 0

-- fragment: listed_ids
SELECT json_array_elements_text(CAST(:ids AS json))
