-- fragment: extractions
ingestion_extractions

-- fragment: mentions
ingestion_mentions

-- fragment: relations
ingestion_relations

-- fragment: found_in_name
instr(normalised, :query) > 0

-- fragment: listed_ids
SELECT value FROM json_each(:ids)
