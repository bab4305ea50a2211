-- The labels of requests: the end user and the tags that clients send. A label is user or tag:KEY.
CREATE TABLE labels (
  request_id TEXT   NOT NULL,
  label      TEXT   NOT NULL,
  value      TEXT   NOT NULL,
  began      BIGINT NOT NULL, -- of the request
  PRIMARY KEY (request_id, label)
);
CREATE INDEX labels_value ON labels (label, value, began, request_id);

-- Sums of requests by label, written in the same transaction as the rows.
CREATE TABLE label_hours (
  org         TEXT   NOT NULL,
  hour        BIGINT NOT NULL,
  label       TEXT   NOT NULL,
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
  PRIMARY KEY (org, label, hour, value, team, key_id, model, target)
);
CREATE INDEX label_hours_label ON label_hours (label, hour);

-- The values of an organisation's labels that have sums of their own on a day. The value is empty for
-- the label itself.
CREATE TABLE label_values (
  org   TEXT   NOT NULL,
  day   BIGINT NOT NULL, -- days since 1970
  label TEXT   NOT NULL,
  value TEXT   NOT NULL,
  PRIMARY KEY (org, day, label, value)
);

-- A transaction that adds values of an organisation and a day holds the lock of this row.
CREATE TABLE label_days (
  org TEXT   NOT NULL,
  day BIGINT NOT NULL,
  PRIMARY KEY (org, day)
);
