-- A batch of documents goes into the tables.
INSERT INTO kept_plans
SELECT $source, node, cycle, plan.made_at_seconds, plan.observation_made_at_seconds,
    plan.window_seconds, plan.budget_bytes, plan.method, plan.decision, plan.reason,
    plan.optimality_gap, plan.mean_access_time_before_seconds, plan.mean_access_time_seconds,
    plan.run_seconds, version
FROM new_documents WHERE plan IS NOT NULL;
INSERT INTO kept_plan_servers
SELECT $source, node, cycle, server.name, server.maxmemory_before_bytes,
    server.maxmemory_bytes, server.installed_bytes, server.eat_before_seconds, server.eat_seconds,
    server.eat_installed_seconds, server.weight, server.request_rate_per_second, server.reason
FROM (
    SELECT node, cycle, unnest(plan.servers) AS server FROM new_documents WHERE plan IS NOT NULL
) AS servers;
INSERT INTO kept_what_if
SELECT $source, node, cycle, other.budget_bytes, other.mean_access_time_seconds
FROM (
    SELECT node, cycle, unnest(plan.what_if) AS other FROM new_documents WHERE plan IS NOT NULL
) AS others
