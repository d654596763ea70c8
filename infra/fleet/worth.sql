-- What is a step (a GiB, unless asked otherwise) of memory worth on each node? The waiting that it
-- saves each second. "at least": it is more than the what-if looks ahead.
SELECT steps.source, steps.node, budget_bytes, reads_per_second, seconds AS mean_seconds,
    seconds_with_more AS mean_seconds_then,
    reads_per_second * (seconds - seconds_with_more) AS waiting_saved,
    CASE WHEN budget_bytes + asked.step_bytes > largest_bytes THEN 'at least' ELSE '' END AS bound
FROM steps CROSS JOIN asked
ORDER BY waiting_saved DESC NULLS LAST, steps.source, steps.node
