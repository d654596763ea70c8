-- One batch of documents, as text beside their keys, in the form of the tables. What is no plan, or
-- lies under another's key, has no `plan`.
CREATE OR REPLACE TEMP TABLE new_documents AS
SELECT node, cycle,
    CASE WHEN document.kind = 'spreds.plan' AND document.version = 1
        AND document.node = typed.node AND document.cycle = typed.cycle
        AND document.made_at_seconds IS NOT NULL
        AND document.observation_made_at_seconds IS NOT NULL
        AND document.budget_bytes IS NOT NULL
        AND document.decision IN ('apply', 'keep')
        AND len(document.servers) > 0
        AND len(list_filter(document.servers, lambda server: server.name IS NULL
            OR server.maxmemory_before_bytes IS NULL OR server.maxmemory_bytes IS NULL)) = 0
    THEN document END AS plan
FROM (
    SELECT node, cycle, from_json(CASE WHEN json_valid(text) THEN text END, '{
        "kind": "VARCHAR", "version": "BIGINT", "node": "VARCHAR", "cycle": "BIGINT",
        "made_at_seconds": "DOUBLE", "observation_made_at_seconds": "DOUBLE",
        "window_seconds": "DOUBLE", "budget_bytes": "BIGINT", "method": "VARCHAR",
        "decision": "VARCHAR", "reason": "VARCHAR", "optimality_gap": "DOUBLE",
        "mean_access_time_before_seconds": "DOUBLE", "mean_access_time_seconds": "DOUBLE",
        "run_seconds": "DOUBLE",
        "servers": [{"name": "VARCHAR", "maxmemory_before_bytes": "BIGINT",
            "maxmemory_bytes": "BIGINT", "installed_bytes": "BIGINT",
            "eat_before_seconds": "DOUBLE", "eat_seconds": "DOUBLE",
            "eat_installed_seconds": "DOUBLE", "weight": "DOUBLE",
            "request_rate_per_second": "DOUBLE", "reason": "VARCHAR"}],
        "what_if": [{"budget_bytes": "BIGINT", "mean_access_time_seconds": "DOUBLE"}]
    }') AS document
    FROM read_csv($file, columns = {node: 'VARCHAR', cycle: 'BIGINT', text: 'VARCHAR'},
        delim = '\t', quote = '', escape = '', header = false, auto_detect = false,
        max_line_size = 4400000)
) AS typed
