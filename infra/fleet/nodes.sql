-- Which nodes lack memory? Those whose reads would wait less by the asked ratio with the largest
-- budget of the what-if (half as much again).
SELECT steps.source, steps.node,
    CASE WHEN least_seconds < seconds * (1e0 - asked.lack_ratio) THEN 'lacks memory'
        ELSE 'has enough' END AS verdict,
    budget_bytes, seconds AS mean_seconds, largest_bytes AS with_bytes,
    least_seconds AS mean_seconds_then,
    CASE WHEN seconds > 0 THEN 1e0 - least_seconds / seconds ELSE 0e0 END AS falls_ratio,
    reads_per_second * (seconds - least_seconds) AS waiting_saved
FROM steps CROSS JOIN asked
ORDER BY waiting_saved DESC NULLS LAST, falls_ratio DESC, steps.source, steps.node
