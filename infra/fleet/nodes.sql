-- Which nodes lack memory? Those whose reads would wait less by the asked ratio with the largest
-- budget of the what-if (half as much again). Of a plan that tells of no larger budget, or not what its
-- own brings, nothing is known.
SELECT source, node,
    CASE WHEN seconds IS NULL OR then_seconds IS NULL THEN 'not known'
        WHEN then_seconds < seconds * (1e0 - lack_ratio) THEN 'lacks memory'
        ELSE 'has enough' END AS verdict,
    budget_bytes, seconds AS mean_seconds, with_bytes, then_seconds AS mean_seconds_then,
    CASE WHEN seconds > 0 THEN 1e0 - then_seconds / seconds
        WHEN seconds = 0 THEN 0e0 * then_seconds END AS falls_ratio,
    reads_per_second * (seconds - then_seconds) AS waiting_saved
FROM (
    SELECT steps.*, asked.lack_ratio,
        CASE WHEN largest_bytes > budget_bytes THEN largest_bytes END AS with_bytes,
        CASE WHEN largest_bytes > budget_bytes THEN least_seconds END AS then_seconds
    FROM steps CROSS JOIN asked
) AS known
ORDER BY waiting_saved DESC NULLS LAST, falls_ratio DESC NULLS LAST, source, node
