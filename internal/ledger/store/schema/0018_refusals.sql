-- How many requests the processes of the gateways have refused, by minute. A count is a total of its process, log, so
-- that one that is sent twice changes nothing. Team and organisation are empty for keys without one.
CREATE TABLE refusals (
  minute BIGINT NOT NULL,
  org    TEXT   NOT NULL,
  team   TEXT   NOT NULL,
  key_id TEXT   NOT NULL, -- empty: the process had no room for the key
  reason TEXT   NOT NULL,
  log    TEXT   NOT NULL,
  node   TEXT   NOT NULL,
  count  BIGINT NOT NULL CHECK (count >= 0),
  PRIMARY KEY (minute, org, team, key_id, reason, log)
)
/* SQLite */ WITHOUT ROWID;
CREATE INDEX refusals_of_key ON refusals (key_id, minute);
