-- The gateway processes that use the store, for operators. A row is written again every few seconds.
CREATE TABLE nodes (
  id       TEXT    NOT NULL PRIMARY KEY, -- of the process
  name     TEXT    NOT NULL,
  version  TEXT    NOT NULL,
  started  BIGINT  NOT NULL,
  seen     BIGINT  NOT NULL,
  stopped  BIGINT  NOT NULL, -- 0: it did not say so
  config   TEXT    NOT NULL, -- digest of the configuration
  loaded   BIGINT  NOT NULL, -- when the configuration was loaded
  refused  BIGINT  NOT NULL, -- when a reload was refused; 0: the last one was not
  open     BIGINT  NOT NULL, -- requests
  waiting  BIGINT  NOT NULL, -- rows that are not in the ledger yet
  oldest   BIGINT  NOT NULL, -- age of the oldest of them
  captured BOOLEAN NOT NULL  -- a capture is attached
);

-- The configurations of the nodes, without secrets.
CREATE TABLE node_configs (
  digest TEXT   NOT NULL PRIMARY KEY,
  text   TEXT   NOT NULL,
  seen   BIGINT NOT NULL
);
