-- One batch of documents, as text beside their keys, in the form of the tables. What is no plan, or
-- lies under another's key, has no `plan`. The rules are those of AdaptationPlan for all numbers that are
-- counted; the form was checked before, but for digits and signs. Two sizes of 2305843009213693952 bytes
-- can still be added.
CREATE OR REPLACE TEMP TABLE new_documents AS
SELECT node, cycle, version,
    CASE WHEN document.kind = 'spreds.plan' AND document.version = 1
        AND document.node = typed.node AND document.cycle = typed.cycle
        AND document.made_at_seconds BETWEEN 0 AND 1e19
        AND document.observation_made_at_seconds BETWEEN 0 AND 1e19
        AND coalesce(document.window_seconds, 0) BETWEEN 0 AND 1e19
        AND document.budget_bytes BETWEEN 1 AND 2305843009213693952
        AND len(document.method) <= 4096 AND len(document.reason) <= 4096
        AND document.decision IN ('apply', 'keep')
        AND coalesce(document.optimality_gap, 0) BETWEEN 0 AND 1e19
        AND coalesce(document.mean_access_time_before_seconds, 0) BETWEEN 0 AND 1e19
        AND coalesce(document.mean_access_time_seconds, 0) BETWEEN 0 AND 1e19
        AND coalesce(document.run_seconds, 0) BETWEEN 0 AND 1e19
        AND len(document.servers) BETWEEN 1 AND 1024
        AND len(list_distinct(list_transform(document.servers, lambda server: server.name)))
            = len(document.servers)
        AND len(list_filter(document.servers, lambda server:
            len(server.name) <= 63 AND trim(server.name, '-') = server.name
            AND server.maxmemory_before_bytes BETWEEN 0 AND 2305843009213693952
            AND server.maxmemory_bytes BETWEEN 0 AND 2305843009213693952
            AND (server.maxmemory_bytes > 0 OR document.decision = 'keep')
            AND coalesce(server.installed_bytes, 0) BETWEEN 0 AND 2305843009213693952
            AND len(server.reason) <= 4096
            AND coalesce(server.eat_before_seconds, 0) BETWEEN 0 AND 1e19
            AND coalesce(server.eat_seconds, 0) BETWEEN 0 AND 1e19
            AND coalesce(server.eat_installed_seconds, 0) BETWEEN 0 AND 1e19
            AND coalesce(server.weight, 0) BETWEEN 0 AND 1e19
            AND coalesce(server.request_rate_per_second, 0) BETWEEN 0 AND 1e19
        )) = len(document.servers)
        AND (document.decision = 'keep' OR list_sum(list_transform(document.servers,
            lambda server: server.maxmemory_bytes)) <= document.budget_bytes)
        AND coalesce(len(document.what_if), 0) <= 1024
        AND len(list_filter(document.what_if, lambda other:
            other.budget_bytes BETWEEN 1 AND 2305843009213693952
            AND other.mean_access_time_seconds BETWEEN 0 AND 1e19
        )) IS NOT DISTINCT FROM len(document.what_if)
    THEN document END AS plan
FROM (
    SELECT node, cycle, version, TRY(from_json(text, '{
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
    }')) AS document
    FROM read_csv($file, columns = {node: 'VARCHAR', cycle: 'BIGINT', version: 'VARCHAR',
            text: 'VARCHAR'}, delim = '\t', quote = '', escape = '', header = false,
        auto_detect = false, max_line_size = 4400000)
) AS typed
