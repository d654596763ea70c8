-- Which size should each machine's budget have? For a plan, the least budget of the what-if whose
-- mean access time is within the asked ratio of the largest one's; for the machine, what is enough
-- for 95 % of the plans in the period. "at least": it is the largest that the what-if looked at, so
-- more may be needed; "at most": it is the smallest.
SELECT latest.source, latest.node, latest.budget_bytes, right_size.right_bytes,
    CASE right_size.edge WHEN 2 THEN 'at least' WHEN 0 THEN 'at most' ELSE '' END AS bound,
    right_size.right_bytes - latest.budget_bytes AS change_bytes,
    CASE WHEN right_size.right_bytes < latest.budget_bytes THEN 'smaller'
        WHEN right_size.right_bytes > latest.budget_bytes THEN 'larger'
        ELSE 'as it is' END AS verdict,
    right_size.plans
FROM latest
JOIN (
    SELECT source, node, min(bytes) AS right_bytes, min_by(edge, place) AS edge,
        max(plans) AS plans
    FROM (
        SELECT source, node, bytes, edge,
            row_number() OVER (PARTITION BY source, node ORDER BY bytes, edge) AS place,
            count(*) OVER (PARTITION BY source, node) AS plans
        FROM (
            SELECT budgets.source, budgets.node, budgets.cycle,
                min(budgets.budget_bytes) AS bytes,
                CASE min(budgets.budget_bytes) WHEN min(best.largest_bytes) THEN 2
                    WHEN min(best.least_bytes) THEN 0 ELSE 1 END AS edge
            FROM budgets
            CROSS JOIN asked
            JOIN (
                SELECT source, node, cycle, min(seconds) AS seconds, count(*) AS points,
                    min(budget_bytes) AS least_bytes, max(budget_bytes) AS largest_bytes
                FROM budgets GROUP BY source, node, cycle
            ) AS best
                ON best.source = budgets.source AND best.node = budgets.node
                AND best.cycle = budgets.cycle
            WHERE best.points > 1
                AND budgets.seconds <= best.seconds * (1e0 + asked.size_ratio)
            GROUP BY budgets.source, budgets.node, budgets.cycle
        ) AS each_plan
    ) AS placed
    WHERE place >= 95e-2 * plans
    GROUP BY source, node
) AS right_size
    ON right_size.source = latest.source AND right_size.node = latest.node
ORDER BY change_bytes, latest.source, latest.node
