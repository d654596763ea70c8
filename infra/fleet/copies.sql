-- Each plan once, though a folder may hold a copy of some that a bucket has, or a plan that stood in for
-- one. Two sources that both have a plan of a node for one and the same observation tell of one node; two
-- stacks' nodes of one name have none in common.
CREATE OR REPLACE TEMP TABLE told AS
WITH RECURSIVE prints AS (
    SELECT source, node, cycle, made_at_seconds, hash(observation_made_at_seconds, budget_bytes,
        mean_access_time_before_seconds) AS print
    FROM kept_plans WHERE source IN (SELECT source FROM chosen)
), shared AS (
    SELECT DISTINCT one.source, one.node, other.source AS other
    FROM prints AS one JOIN prints AS other
        ON (one.node, one.cycle, one.print) = (other.node, other.cycle, other.print)
), reached AS (
    SELECT source, node, other FROM shared
    UNION
    SELECT reached.source, reached.node, shared.other
    FROM reached JOIN shared ON (shared.source, shared.node) = (reached.other, reached.node)
), newest AS (
    SELECT source, node, max(made_at_seconds) AS seconds FROM prints GROUP BY source, node
), homes AS (
    -- The node is called by the source that has its newest plan: an archive ends some time.
    SELECT reached.source, reached.node,
        first(reached.other ORDER BY newest.seconds DESC, reached.other) AS told_of
    FROM reached JOIN newest ON (newest.source, newest.node) = (reached.other, reached.node)
    GROUP BY reached.source, reached.node
)
SELECT source, node, cycle, told_of FROM (
    SELECT prints.*, homes.told_of, row_number() OVER (
        PARTITION BY homes.told_of, prints.node, prints.cycle
        ORDER BY prints.made_at_seconds DESC, prints.source) AS copy
    FROM prints JOIN homes ON (homes.source, homes.node) = (prints.source, prints.node)
) AS numbered
WHERE copy = 1
