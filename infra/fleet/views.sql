-- What all questions begin with. The same text runs in Athena, one statement at a time, over the
-- tables of docs/fleet.md and a view `asked` with the columns that infra.fleet gives it.

-- The plans of the period.
CREATE OR REPLACE VIEW counted AS
SELECT * FROM plans
WHERE made_at_seconds >= (SELECT from_seconds FROM asked)
    AND made_at_seconds < (SELECT to_seconds FROM asked);

-- Those that know the curve of each server that has one: where a server is still filling, or was hardly
-- sampled, neither the plan's mean nor that of another budget means much.
CREATE OR REPLACE VIEW known AS
SELECT counted.*
FROM counted
LEFT JOIN (
    SELECT DISTINCT source, node, cycle FROM plan_servers
    WHERE reason LIKE 'stays: warming_up: %' OR reason LIKE 'stays: few_samples: %'
) AS unknown
    ON unknown.source = counted.source AND unknown.node = counted.node
    AND unknown.cycle = counted.cycle
WHERE unknown.node IS NULL;

-- The last such plan of each node that has one a day (or what was asked) before the newest of all:
-- others have ended, or were renamed.
CREATE OR REPLACE VIEW latest AS
SELECT * FROM (
    SELECT known.*, row_number() OVER (PARTITION BY source, node ORDER BY cycle DESC) AS back
    FROM known
) AS numbered
WHERE back = 1
    AND made_at_seconds >= (SELECT max(made_at_seconds) FROM counted)
        - (SELECT ended_seconds FROM asked);

-- The mean access time of each plan over budgets: its own and those of the what-if, with what a
-- smaller one gives at most. All moves are made in it, so at the plan's own it may be below its mean.
CREATE OR REPLACE VIEW budgets AS
SELECT source, node, cycle, budget_bytes,
    min(seconds) OVER (PARTITION BY source, node, cycle ORDER BY budget_bytes) AS seconds
FROM (
    SELECT source, node, cycle, budget_bytes, mean_access_time_seconds AS seconds FROM known
    UNION ALL
    SELECT what_if.source, what_if.node, what_if.cycle, what_if.budget_bytes,
        what_if.mean_access_time_seconds
    FROM what_if JOIN known
        ON known.source = what_if.source AND known.node = what_if.node
        AND known.cycle = what_if.cycle
    WHERE what_if.budget_bytes <> known.budget_bytes
        AND what_if.budget_bytes BETWEEN 0.75e0 * known.budget_bytes AND 1.5e0 * known.budget_bytes
) AS points
WHERE seconds IS NOT NULL;

-- Of each node now: reads a second, and the mean access time as it is, and with a step more and less,
-- between two budgets on a straight line. Above the largest budget it is that one's, below the least
-- it is not known. "Waiting" is reads a second times mean access time: seconds waited each second.
CREATE OR REPLACE VIEW steps AS
SELECT latest.source, latest.node, latest.budget_bytes, demand.reads_per_second,
    max(CASE WHEN line.budget_bytes = latest.budget_bytes THEN line.seconds END) AS seconds,
    max(CASE WHEN line.budget_bytes <= latest.budget_bytes + asked.step_bytes
            AND coalesce(line.next_bytes, 9e18) > latest.budget_bytes + asked.step_bytes
        THEN line.seconds + coalesce((line.next_seconds - line.seconds)
            * (latest.budget_bytes + asked.step_bytes - line.budget_bytes)
            / CAST(line.next_bytes - line.budget_bytes AS DOUBLE), 0) END) AS seconds_with_more,
    max(CASE WHEN line.budget_bytes <= latest.budget_bytes - asked.step_bytes
            AND coalesce(line.next_bytes, 9e18) > latest.budget_bytes - asked.step_bytes
        THEN line.seconds + coalesce((line.next_seconds - line.seconds)
            * (latest.budget_bytes - asked.step_bytes - line.budget_bytes)
            / CAST(line.next_bytes - line.budget_bytes AS DOUBLE), 0) END) AS seconds_with_less,
    max(line.budget_bytes) AS largest_bytes,
    min(line.seconds) AS least_seconds
FROM latest
CROSS JOIN asked
JOIN (
    SELECT source, node, cycle, sum(request_rate_per_second) AS reads_per_second
    FROM plan_servers GROUP BY source, node, cycle
) AS demand
    ON demand.source = latest.source AND demand.node = latest.node
    AND demand.cycle = latest.cycle
JOIN (
    SELECT budgets.*,
        lead(budget_bytes) OVER (PARTITION BY source, node, cycle ORDER BY budget_bytes)
            AS next_bytes,
        lead(seconds) OVER (PARTITION BY source, node, cycle ORDER BY budget_bytes)
            AS next_seconds
    FROM budgets
) AS line
    ON line.source = latest.source AND line.node = latest.node AND line.cycle = latest.cycle
GROUP BY latest.source, latest.node, latest.budget_bytes, demand.reads_per_second;

-- What each server waited in the window before a plan, by its curve: with the sizes that were in force
-- then, and with those from before SPREDS, and whether its team stated the latency behind both. Only
-- plans that tell them.
CREATE OR REPLACE VIEW waited AS
SELECT server.source, server.node, server.name, server.cycle, server.installed_bytes,
    server.maxmemory_before_bytes, server.weight,
    counted.window_seconds * server.request_rate_per_second AS reads,
    server.eat_installed_seconds AS seconds_as_found,
    server.eat_before_seconds AS seconds_a_read,
    server.reason LIKE '%; its backend takes % as its team says%' AS is_stated
FROM plan_servers AS server
JOIN counted
    ON counted.source = server.source AND counted.node = server.node
    AND counted.cycle = server.cycle
WHERE server.eat_installed_seconds IS NOT NULL AND server.eat_before_seconds IS NOT NULL
    AND server.request_rate_per_second IS NOT NULL AND server.weight IS NOT NULL
    AND counted.window_seconds IS NOT NULL;
