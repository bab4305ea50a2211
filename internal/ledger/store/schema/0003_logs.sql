-- The logs of the gateways: how much of each the ledger has. A log is that of one process.
CREATE TABLE logs (
  log      TEXT   NOT NULL PRIMARY KEY,
  position BIGINT NOT NULL, -- of the last row that the ledger has
  seen     BIGINT NOT NULL, -- when rows came last
  finished BIGINT NOT NULL  -- when the log was complete; 0: it is not
);

-- What each account has spent in each log, written in the same transaction as the rows. A counter
-- of a budget is the account's sum plus what its logs have beyond this.
CREATE TABLE log_spent (
  account TEXT   NOT NULL,
  log     TEXT   NOT NULL,
  cost    BIGINT NOT NULL CHECK (cost >= 0),
  PRIMARY KEY (account, log)
);
CREATE INDEX log_spent_log ON log_spent (log);
