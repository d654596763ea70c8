-- In Athena, before views.sql: the tables that the questions are about, of two cells `a` and `b`.
-- More cells are more parts of the first view. The period and the rest are those of `asked`.
CREATE OR REPLACE VIEW documents AS
SELECT 'a' AS source, * FROM plans_a WHERE kind = 'spreds.plan'
UNION ALL
SELECT 'b' AS source, * FROM plans_b WHERE kind = 'spreds.plan';

CREATE OR REPLACE VIEW plans AS
SELECT source, node, cycle, made_at_seconds, observation_made_at_seconds, window_seconds,
    budget_bytes, method, decision, reason, optimality_gap, mean_access_time_before_seconds,
    mean_access_time_seconds, run_seconds
FROM documents;

CREATE OR REPLACE VIEW plan_servers AS
SELECT source, node, cycle, servers[place].name AS name,
    servers[place].maxmemory_before_bytes AS maxmemory_before_bytes,
    servers[place].maxmemory_bytes AS maxmemory_bytes,
    servers[place].installed_bytes AS installed_bytes,
    servers[place].eat_before_seconds AS eat_before_seconds,
    servers[place].eat_seconds AS eat_seconds,
    servers[place].eat_installed_seconds AS eat_installed_seconds,
    servers[place].weight AS weight,
    servers[place].request_rate_per_second AS request_rate_per_second,
    servers[place].reason AS reason
FROM documents CROSS JOIN UNNEST(sequence(1, cardinality(servers))) AS places (place);

CREATE OR REPLACE VIEW what_if AS
SELECT source, node, cycle, element_at(what_if, place).budget_bytes AS budget_bytes,
    element_at(what_if, place).mean_access_time_seconds AS mean_access_time_seconds
FROM documents
CROSS JOIN UNNEST(sequence(1, greatest(1, cardinality(what_if)))) AS places (place)
WHERE cardinality(what_if) > 0;

CREATE OR REPLACE VIEW asked AS
SELECT to_unixtime(TIMESTAMP '2026-11-01 00:00:00 UTC') AS from_seconds,
    to_unixtime(TIMESTAMP '2026-12-01 00:00:00 UTC') AS to_seconds,
    1073741824 AS step_bytes, 86400e0 AS ended_seconds, 5e-2 AS lack_ratio, 2e-2 AS size_ratio
