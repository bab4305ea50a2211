-- Further budgets of keys, teams and organisations: AMOUNT/WINDOW, separated by spaces. The columns
-- budget and budget_window have the first one.
ALTER TABLE orgs ADD COLUMN budgets TEXT NOT NULL DEFAULT '';
ALTER TABLE teams ADD COLUMN budgets TEXT NOT NULL DEFAULT '';
ALTER TABLE keys ADD COLUMN budgets TEXT NOT NULL DEFAULT '';

-- Which thresholds of budgets have been passed: there is no further alert until then.
CREATE TABLE alert_marks (
  account   TEXT   NOT NULL,
  span      BIGINT NOT NULL, -- the window
  budget    BIGINT NOT NULL,
  threshold BIGINT NOT NULL, -- in percent
  until     BIGINT NOT NULL,
  PRIMARY KEY (account, span, budget, threshold)
);

-- Alerts that were written with the sums that they are about, until they are delivered.
CREATE TABLE alerts (
  id        TEXT   NOT NULL PRIMARY KEY,
  created   BIGINT NOT NULL,
  account   TEXT   NOT NULL,
  name      TEXT   NOT NULL,
  org       TEXT   NOT NULL,
  team      TEXT   NOT NULL,
  span      BIGINT NOT NULL,
  budget    BIGINT NOT NULL,
  spent     BIGINT NOT NULL,
  threshold BIGINT NOT NULL,
  tries     BIGINT NOT NULL,
  due       BIGINT NOT NULL, -- when it may be tried next; a node that delivers it sets it to the end of its lease
  ended     BIGINT NOT NULL, -- when it was delivered or given up; 0: it was not
  delivered BOOLEAN NOT NULL
);
CREATE INDEX alerts_due ON alerts (ended, due);
