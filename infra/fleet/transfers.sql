-- Which node should give a step of memory to which other? The waiting that the one saves, less what
-- the other waits more. Of the twenty that gain most and the twenty that lose least.
SELECT giver.source AS from_source, giver.node AS from_node, taker.source AS to_source,
    taker.node AS to_node, taker.gain - giver.loss AS waiting_saved, taker.gain, giver.loss
FROM (
    SELECT source, node, reads_per_second * (seconds - seconds_with_more) AS gain,
        row_number() OVER (ORDER BY reads_per_second * (seconds - seconds_with_more) DESC,
            source, node) AS place
    FROM steps WHERE seconds_with_more IS NOT NULL AND reads_per_second IS NOT NULL
) AS taker
CROSS JOIN (
    SELECT source, node, reads_per_second * (seconds_with_less - seconds) AS loss,
        row_number() OVER (ORDER BY reads_per_second * (seconds_with_less - seconds),
            source, node) AS place
    FROM steps WHERE seconds_with_less IS NOT NULL AND reads_per_second IS NOT NULL
) AS giver
WHERE taker.place <= 20 AND giver.place <= 20 AND taker.gain > giver.loss
    AND (taker.source <> giver.source OR taker.node <> giver.node)
ORDER BY waiting_saved DESC, from_source, from_node, to_source, to_node
