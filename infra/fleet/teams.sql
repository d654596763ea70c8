-- Which teams lost what? A team is a server's name, on as many nodes as have one. Sizes are those of
-- its last plans, against those from before SPREDS.
SELECT team, count(*) AS nodes,
    sum(CASE WHEN saved < 0 THEN 1 ELSE 0 END) AS nodes_that_lost,
    sum(installed_bytes) AS bytes_as_found, sum(bytes) AS bytes,
    sum(seconds_as_found) / nullif(sum(reads), 0e0) AS mean_seconds_as_found,
    sum(seconds_as_found - saved) / nullif(sum(reads), 0e0) AS mean_seconds,
    sum(CASE WHEN saved < 0 THEN -saved ELSE 0e0 END) AS seconds_lost,
    sum(CASE WHEN saved > 0 THEN saved ELSE 0e0 END) AS seconds_saved
FROM (
    SELECT source, node, name AS team, sum(reads) AS reads,
        sum(reads * seconds_as_found) AS seconds_as_found,
        sum(reads * (seconds_as_found - seconds_a_read)) AS saved,
        max_by(installed_bytes, cycle) AS installed_bytes,
        max_by(maxmemory_before_bytes, cycle) AS bytes
    FROM waited
    GROUP BY source, node, name
) AS each_node
GROUP BY team
ORDER BY seconds_lost DESC, team
