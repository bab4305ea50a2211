-- Sums by day, and sums by hour in the order of time. A question takes whole days from the sums by day and
-- the hours before and after them from the sums by hour.

-- Rows of hours are added at the end of a table or index that begins with the hour, and a range of time is one
-- part of it. In SQLite the table is its primary key.
/* PostgreSQL */ DROP INDEX hours_key;
/* PostgreSQL */ CREATE INDEX hours_hour ON hours (hour, key_id);
/* SQLite */ CREATE TABLE new_hours (
  hour        BIGINT NOT NULL,
  org         TEXT   NOT NULL,
  team        TEXT   NOT NULL,
  key_id      TEXT   NOT NULL,
  model       TEXT   NOT NULL,
  target      TEXT   NOT NULL,
  requests    BIGINT NOT NULL,
  unknown     BIGINT NOT NULL,
  estimated   BIGINT NOT NULL,
  input       BIGINT NOT NULL,
  cache_read  BIGINT NOT NULL,
  cache_write BIGINT NOT NULL,
  output      BIGINT NOT NULL,
  reasoning   BIGINT NOT NULL,
  cost        BIGINT NOT NULL CHECK (cost >= 0),
  errors      BIGINT NOT NULL,
  refused     BIGINT NOT NULL,
  token_1     BIGINT NOT NULL,
  token_2     BIGINT NOT NULL,
  token_3     BIGINT NOT NULL,
  token_4     BIGINT NOT NULL,
  token_5     BIGINT NOT NULL,
  token_6     BIGINT NOT NULL,
  token_7     BIGINT NOT NULL,
  token_8     BIGINT NOT NULL,
  PRIMARY KEY (hour, org, team, key_id, model, target)
) WITHOUT ROWID;
/* SQLite */ INSERT INTO new_hours SELECT hour, org, team, key_id, model, target, requests, unknown, estimated, input, cache_read, cache_write, output, reasoning, cost, errors, refused, token_1, token_2, token_3, token_4, token_5, token_6, token_7, token_8
  FROM hours ORDER BY hour, org, team, key_id, model, target;
/* SQLite */ DROP TABLE hours;
/* SQLite */ ALTER TABLE new_hours RENAME TO hours;
/* SQLite */ CREATE TABLE new_label_hours (
  label       TEXT   NOT NULL,
  hour        BIGINT NOT NULL,
  org         TEXT   NOT NULL,
  value       TEXT   NOT NULL,
  team        TEXT   NOT NULL,
  key_id      TEXT   NOT NULL,
  model       TEXT   NOT NULL,
  target      TEXT   NOT NULL,
  requests    BIGINT NOT NULL,
  unknown     BIGINT NOT NULL,
  estimated   BIGINT NOT NULL,
  input       BIGINT NOT NULL,
  cache_read  BIGINT NOT NULL,
  cache_write BIGINT NOT NULL,
  output      BIGINT NOT NULL,
  reasoning   BIGINT NOT NULL,
  cost        BIGINT NOT NULL CHECK (cost >= 0),
  errors      BIGINT NOT NULL,
  refused     BIGINT NOT NULL,
  token_1     BIGINT NOT NULL,
  token_2     BIGINT NOT NULL,
  token_3     BIGINT NOT NULL,
  token_4     BIGINT NOT NULL,
  token_5     BIGINT NOT NULL,
  token_6     BIGINT NOT NULL,
  token_7     BIGINT NOT NULL,
  token_8     BIGINT NOT NULL,
  PRIMARY KEY (label, hour, org, value, team, key_id, model, target)
) WITHOUT ROWID;
/* SQLite */ INSERT INTO new_label_hours SELECT label, hour, org, value, team, key_id, model, target, requests, unknown, estimated, input, cache_read, cache_write, output, reasoning, cost, errors, refused, token_1, token_2, token_3, token_4, token_5, token_6, token_7, token_8
  FROM label_hours ORDER BY label, hour, org, value, team, key_id, model, target;
/* SQLite */ DROP TABLE label_hours;
/* SQLite */ ALTER TABLE new_label_hours RENAME TO label_hours;

-- Sums of hours by day. days has all columns, model_days no teams and keys, and key_days no models and targets.
CREATE TABLE days (
  day         BIGINT NOT NULL,
  org         TEXT   NOT NULL,
  team        TEXT   NOT NULL,
  key_id      TEXT   NOT NULL,
  model       TEXT   NOT NULL,
  target      TEXT   NOT NULL,
  requests    BIGINT NOT NULL,
  unknown     BIGINT NOT NULL,
  estimated   BIGINT NOT NULL,
  input       BIGINT NOT NULL,
  cache_read  BIGINT NOT NULL,
  cache_write BIGINT NOT NULL,
  output      BIGINT NOT NULL,
  reasoning   BIGINT NOT NULL,
  cost        BIGINT NOT NULL,
  errors      BIGINT NOT NULL,
  refused     BIGINT NOT NULL,
  token_1     BIGINT NOT NULL,
  token_2     BIGINT NOT NULL,
  token_3     BIGINT NOT NULL,
  token_4     BIGINT NOT NULL,
  token_5     BIGINT NOT NULL,
  token_6     BIGINT NOT NULL,
  token_7     BIGINT NOT NULL,
  token_8     BIGINT NOT NULL,
  PRIMARY KEY (day, org, team, key_id, model, target)
) WITHOUT ROWID;
INSERT INTO days SELECT hour / 24, org, team, key_id, model, target, sum(requests), sum(unknown), sum(estimated), sum(input), sum(cache_read), sum(cache_write), sum(output), sum(reasoning), sum(cost), sum(errors), sum(refused), sum(token_1), sum(token_2), sum(token_3), sum(token_4), sum(token_5), sum(token_6), sum(token_7), sum(token_8)
  FROM hours GROUP BY hour / 24, org, team, key_id, model, target;

CREATE TABLE model_days (
  day         BIGINT NOT NULL,
  org         TEXT   NOT NULL,
  model       TEXT   NOT NULL,
  target      TEXT   NOT NULL,
  requests    BIGINT NOT NULL,
  unknown     BIGINT NOT NULL,
  estimated   BIGINT NOT NULL,
  input       BIGINT NOT NULL,
  cache_read  BIGINT NOT NULL,
  cache_write BIGINT NOT NULL,
  output      BIGINT NOT NULL,
  reasoning   BIGINT NOT NULL,
  cost        BIGINT NOT NULL,
  errors      BIGINT NOT NULL,
  refused     BIGINT NOT NULL,
  token_1     BIGINT NOT NULL,
  token_2     BIGINT NOT NULL,
  token_3     BIGINT NOT NULL,
  token_4     BIGINT NOT NULL,
  token_5     BIGINT NOT NULL,
  token_6     BIGINT NOT NULL,
  token_7     BIGINT NOT NULL,
  token_8     BIGINT NOT NULL,
  PRIMARY KEY (day, org, model, target)
) WITHOUT ROWID;
INSERT INTO model_days SELECT hour / 24, org, model, target, sum(requests), sum(unknown), sum(estimated), sum(input), sum(cache_read), sum(cache_write), sum(output), sum(reasoning), sum(cost), sum(errors), sum(refused), sum(token_1), sum(token_2), sum(token_3), sum(token_4), sum(token_5), sum(token_6), sum(token_7), sum(token_8)
  FROM hours GROUP BY hour / 24, org, model, target;

-- Sums of label_hours by day, by value alone.
CREATE TABLE value_days (
  label       TEXT   NOT NULL,
  day         BIGINT NOT NULL,
  org         TEXT   NOT NULL,
  value       TEXT   NOT NULL,
  requests    BIGINT NOT NULL,
  unknown     BIGINT NOT NULL,
  estimated   BIGINT NOT NULL,
  input       BIGINT NOT NULL,
  cache_read  BIGINT NOT NULL,
  cache_write BIGINT NOT NULL,
  output      BIGINT NOT NULL,
  reasoning   BIGINT NOT NULL,
  cost        BIGINT NOT NULL,
  errors      BIGINT NOT NULL,
  refused     BIGINT NOT NULL,
  token_1     BIGINT NOT NULL,
  token_2     BIGINT NOT NULL,
  token_3     BIGINT NOT NULL,
  token_4     BIGINT NOT NULL,
  token_5     BIGINT NOT NULL,
  token_6     BIGINT NOT NULL,
  token_7     BIGINT NOT NULL,
  token_8     BIGINT NOT NULL,
  PRIMARY KEY (label, day, org, value)
) WITHOUT ROWID;
INSERT INTO value_days SELECT label, hour / 24, org, value, sum(requests), sum(unknown), sum(estimated), sum(input), sum(cache_read), sum(cache_write), sum(output), sum(reasoning), sum(cost), sum(errors), sum(refused), sum(token_1), sum(token_2), sum(token_3), sum(token_4), sum(token_5), sum(token_6), sum(token_7), sum(token_8)
  FROM label_hours GROUP BY label, hour / 24, org, value;

-- Sums of label_hours by day, without teams and keys.
CREATE TABLE value_model_days (
  label       TEXT   NOT NULL,
  day         BIGINT NOT NULL,
  org         TEXT   NOT NULL,
  value       TEXT   NOT NULL,
  model       TEXT   NOT NULL,
  target      TEXT   NOT NULL,
  requests    BIGINT NOT NULL,
  unknown     BIGINT NOT NULL,
  estimated   BIGINT NOT NULL,
  input       BIGINT NOT NULL,
  cache_read  BIGINT NOT NULL,
  cache_write BIGINT NOT NULL,
  output      BIGINT NOT NULL,
  reasoning   BIGINT NOT NULL,
  cost        BIGINT NOT NULL,
  errors      BIGINT NOT NULL,
  refused     BIGINT NOT NULL,
  token_1     BIGINT NOT NULL,
  token_2     BIGINT NOT NULL,
  token_3     BIGINT NOT NULL,
  token_4     BIGINT NOT NULL,
  token_5     BIGINT NOT NULL,
  token_6     BIGINT NOT NULL,
  token_7     BIGINT NOT NULL,
  token_8     BIGINT NOT NULL,
  PRIMARY KEY (label, day, org, value, model, target)
) WITHOUT ROWID;
INSERT INTO value_model_days SELECT label, hour / 24, org, value, model, target, sum(requests), sum(unknown), sum(estimated), sum(input), sum(cache_read), sum(cache_write), sum(output), sum(reasoning), sum(cost), sum(errors), sum(refused), sum(token_1), sum(token_2), sum(token_3), sum(token_4), sum(token_5), sum(token_6), sum(token_7), sum(token_8)
  FROM label_hours GROUP BY label, hour / 24, org, value, model, target;
