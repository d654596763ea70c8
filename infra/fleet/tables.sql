-- The plans as rows, in DuckDB; docs/fleet.md has the same for Athena.
CREATE TABLE IF NOT EXISTS kept_plans (
    source VARCHAR, node VARCHAR, cycle BIGINT,
    made_at_seconds DOUBLE, observation_made_at_seconds DOUBLE, window_seconds DOUBLE,
    budget_bytes BIGINT, method VARCHAR, decision VARCHAR, reason VARCHAR, optimality_gap DOUBLE,
    mean_access_time_before_seconds DOUBLE, mean_access_time_seconds DOUBLE, run_seconds DOUBLE
);
CREATE TABLE IF NOT EXISTS kept_plan_servers (
    source VARCHAR, node VARCHAR, cycle BIGINT, name VARCHAR,
    maxmemory_before_bytes BIGINT, maxmemory_bytes BIGINT, installed_bytes BIGINT,
    eat_before_seconds DOUBLE, eat_seconds DOUBLE, eat_installed_seconds DOUBLE,
    weight DOUBLE, request_rate_per_second DOUBLE, reason VARCHAR
);
CREATE TABLE IF NOT EXISTS kept_what_if (
    source VARCHAR, node VARCHAR, cycle BIGINT,
    budget_bytes BIGINT, mean_access_time_seconds DOUBLE
);
-- What was kept before this column came has none, and so is read again.
ALTER TABLE kept_plans ADD COLUMN IF NOT EXISTS version VARCHAR;
