-- Counters, updated in the transaction of what they count.

-- name: count_lane
UPDATE holdfast_lanes AS lanes SET
    uploaded = uploaded + :uploaded,
    scheduled = scheduled + :scheduled,
    ready = ready + :ready,
    processing = processing + :processing,
    complete = complete + :complete,
    failed = failed + :failed,
    cancelled = cancelled + :cancelled
WHERE id = :lane;

-- name: count_total
INSERT INTO holdfast_totals AS totals (name, count) VALUES (:name, :count)
ON CONFLICT (name) DO UPDATE SET count = count + excluded.count;

-- name: count_outcome
INSERT INTO holdfast_outcome_counts AS outcome_counts (kind, status, attempts, count)
VALUES (:kind, :status, :attempts, :count)
ON CONFLICT (kind, status, attempts) DO UPDATE SET count = count + excluded.count;

-- name: count_dead
INSERT INTO holdfast_dead_letter_groups AS dead_letter_groups (kind, code, message, count)
VALUES (:kind, :code, :message, max(0, :count))
ON CONFLICT (kind, code, message) DO UPDATE SET count = count + :count;

-- name: count_forget_empty_dead
DELETE FROM holdfast_dead_letter_groups AS dead_letter_groups
WHERE kind = :kind AND code = :code AND message = :message AND count = 0;
