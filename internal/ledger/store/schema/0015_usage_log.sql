-- The log of usage events (usage.sink), as far as consumers have read it. A consumer writes the sums of events
-- and these positions in one transaction.

-- The events of each gateway's log in each partition.
CREATE TABLE usage_positions (
  log       TEXT   NOT NULL,
  partition BIGINT NOT NULL,
  position  BIGINT NOT NULL, -- of the last event that the sums have
  gap       BIGINT NOT NULL, -- offset after a message before which events are missing; 0: none are
  PRIMARY KEY (log, partition)
);

-- The partitions.
CREATE TABLE usage_offsets (
  source     TEXT   NOT NULL, -- the log
  partition  BIGINT NOT NULL,
  next       BIGINT NOT NULL, -- offset of the next message
  block      BIGINT NOT NULL, -- offset after the block that is being written; next: none is
  holder     TEXT   NOT NULL, -- the consumer; empty: none
  until      BIGINT NOT NULL, -- when its lease ends
  PRIMARY KEY (source, partition)
);

-- The consumers, which share the partitions.
CREATE TABLE usage_consumers (
  source TEXT   NOT NULL,
  id     TEXT   NOT NULL,
  seen   BIGINT NOT NULL,
  PRIMARY KEY (source, id)
);
