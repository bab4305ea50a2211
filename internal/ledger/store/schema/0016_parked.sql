-- Usage events of a newer version than the consumer that has read them. A consumer that knows their version
-- adds them to the sums and deletes them in one transaction.
CREATE TABLE usage_parked (
  source    TEXT   NOT NULL, -- the log that was read
  partition BIGINT NOT NULL,
  log       TEXT   NOT NULL, -- of the gateway
  position  BIGINT NOT NULL, -- in the gateway's log
  event     TEXT   NOT NULL, -- as it was read
  PRIMARY KEY (source, partition, log, position)
);
