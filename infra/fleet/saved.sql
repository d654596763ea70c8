-- What did SPREDS save in the period? For each window that was observed: what the reads waited with
-- the sizes in force, and what they would have waited with the sizes from before SPREDS, both by the
-- curves of that window; and how much of that rests on latencies that teams stated. The weighted ratio
-- is of what plans make small. The first row is of all.
SELECT * FROM (
    SELECT coalesce(source, 'all') AS source, coalesce(node, 'all') AS node,
        count(*) AS plans, sum(reads) AS reads,
        sum(as_found) AS seconds_as_found, sum(waited) AS seconds_waited,
        sum(as_found - waited) AS seconds_saved, sum(stated_saved) AS seconds_saved_as_stated,
        sum(as_found - waited) / nullif(sum(as_found), 0e0) AS saved_ratio,
        sum(weighted_saved) / nullif(sum(weighted_as_found), 0e0) AS weighted_ratio
    FROM (
        SELECT source, node, cycle, sum(reads) AS reads,
            sum(reads * seconds_as_found) AS as_found, sum(reads * seconds_a_read) AS waited,
            sum(CASE WHEN is_stated THEN reads * (seconds_as_found - seconds_a_read) ELSE 0e0 END)
                AS stated_saved,
            sum(weight * reads * seconds_as_found) AS weighted_as_found,
            sum(weight * reads * (seconds_as_found - seconds_a_read)) AS weighted_saved
        FROM waited
        GROUP BY source, node, cycle
    ) AS each_plan
    GROUP BY GROUPING SETS ((source, node), ())
    HAVING count(*) > 0
) AS each_node
ORDER BY CASE WHEN source = 'all' THEN 0 ELSE 1 END, seconds_saved DESC, source, node
