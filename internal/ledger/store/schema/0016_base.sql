-- The tables of version 16. Versions before it were never released; see docs/operations/upgrade.md.
--
-- One file for both databases: types and clauses that SQLite and PostgreSQL both know. A statement, or a line of one,
-- that begins with the name of a database is for that one. DEFINE names lines that several statements have.
-- Times are nanoseconds since 1970 (0: none), money is billionths of a dollar, hours and days are those since 1970.
-- A statement ends with a semicolon at the end of a line.

CREATE TABLE revision (
  one      BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
  revision BIGINT NOT NULL, -- the last one that was given out
  keys     BIGINT NOT NULL  -- how many keys there are; see DESIGN.md
);

CREATE TABLE orgs (
  id                TEXT    NOT NULL PRIMARY KEY,
  name              TEXT    NOT NULL,
  blocked           BOOLEAN NOT NULL,
  created           BIGINT  NOT NULL,
  limit_requests    BIGINT  NOT NULL CHECK (limit_requests >= 0),
  limit_tokens      BIGINT  NOT NULL CHECK (limit_tokens >= 0),
  limit_concurrency BIGINT  NOT NULL CHECK (limit_concurrency >= 0),
  budget            BIGINT  NOT NULL CHECK (budget >= 0),
  budget_window     BIGINT  NOT NULL CHECK (budget_window >= 0),
  budgets           TEXT    NOT NULL DEFAULT '', -- further ones: AMOUNT/WINDOW, separated by spaces
  base              BIGINT  NOT NULL, -- its last change took the revisions after base, up to top
  top               BIGINT  NOT NULL
);
CREATE INDEX orgs_top ON orgs (top);

CREATE TABLE teams (
  org               TEXT    NOT NULL REFERENCES orgs (id),
  id                TEXT    NOT NULL,
  name              TEXT    NOT NULL,
  blocked           BOOLEAN NOT NULL,
  created           BIGINT  NOT NULL,
  limit_requests    BIGINT  NOT NULL CHECK (limit_requests >= 0),
  limit_tokens      BIGINT  NOT NULL CHECK (limit_tokens >= 0),
  limit_concurrency BIGINT  NOT NULL CHECK (limit_concurrency >= 0),
  budget            BIGINT  NOT NULL CHECK (budget >= 0),
  budget_window     BIGINT  NOT NULL CHECK (budget_window >= 0),
  budgets           TEXT    NOT NULL DEFAULT '', -- further ones: AMOUNT/WINDOW, separated by spaces
  base              BIGINT  NOT NULL,
  top               BIGINT  NOT NULL,
  PRIMARY KEY (org, id)
);
CREATE INDEX teams_top ON teams (top);

CREATE TABLE keys (
  id                TEXT   NOT NULL PRIMARY KEY,
  seq               BIGINT NOT NULL UNIQUE, -- the how-manieth key it is
  revision          BIGINT NOT NULL UNIQUE,
  name              TEXT   NOT NULL,
  org               TEXT   NOT NULL REFERENCES orgs (id),
  team              TEXT,
  role              TEXT   NOT NULL,
  created           BIGINT NOT NULL,
  expires           BIGINT NOT NULL,
  revoked           BIGINT NOT NULL,
  models            TEXT   NOT NULL, -- this and the next two: JSON arrays
  endpoints         TEXT   NOT NULL,
  networks          TEXT   NOT NULL,
  criticality       TEXT   NOT NULL,
  pepper            BIGINT NOT NULL, -- the digest of the secret
  digest            BYTEA  NOT NULL,
  until             BIGINT NOT NULL,
  old_pepper        BIGINT NOT NULL, -- and of the one before it, while it is rotated
  old_digest        BYTEA,
  old_until         BIGINT NOT NULL,
  limit_requests    BIGINT NOT NULL CHECK (limit_requests >= 0),
  limit_tokens      BIGINT NOT NULL CHECK (limit_tokens >= 0),
  limit_concurrency BIGINT NOT NULL CHECK (limit_concurrency >= 0),
  budget            BIGINT NOT NULL CHECK (budget >= 0),
  budget_window     BIGINT NOT NULL CHECK (budget_window >= 0),
  budgets           TEXT   NOT NULL DEFAULT '',
  scim_name         TEXT   NOT NULL DEFAULT '', -- the user of a person's account
  scim_required     BOOLEAN NOT NULL DEFAULT FALSE, -- whether the user must exist
  removed           BIGINT NOT NULL DEFAULT 0, -- since when the user keeps the person out; 0: it does not
  FOREIGN KEY (org, team) REFERENCES teams (org, id)
);
CREATE INDEX keys_org ON keys (org, seq);
CREATE INDEX keys_team ON keys (org, team, seq);
CREATE INDEX keys_scim_name ON keys (scim_name) WHERE scim_name <> '';

-- A mark is a random text that each change of a key, a team or an organisation writes with its
-- revision. A database that was restored or set back to an older state, and changed since, has
-- other marks than a gateway remembers.
CREATE TABLE marks (
  revision BIGINT NOT NULL PRIMARY KEY,
  mark     TEXT   NOT NULL
);

-- The ledger, one row for each request. No foreign keys: a row is true whatever becomes of its key. n is in the order
-- in which rows come, so that rows and indexes are written at their ends, whatever the request ids are. In PostgreSQL
-- the tables are divided by time, and n has no index, because nothing needs one.
/* PostgreSQL */ CREATE SEQUENCE requests_n_seq;
CREATE TABLE requests (
  /* SQLite */ n INTEGER PRIMARY KEY,
  /* PostgreSQL */ n BIGINT NOT NULL DEFAULT nextval('requests_n_seq'),
  began       BIGINT  NOT NULL,
  id          TEXT    NOT NULL, -- as the client has it; unique together with began
  took        BIGINT  NOT NULL,
  input       BIGINT  NOT NULL CHECK (input >= 0),
  cache_read  BIGINT  NOT NULL CHECK (cache_read >= 0),
  cache_write BIGINT  NOT NULL CHECK (cache_write >= 0),
  output      BIGINT  NOT NULL CHECK (output >= 0),
  reasoning   BIGINT  NOT NULL CHECK (reasoning >= 0),
  cost        BIGINT  CHECK (cost >= 0), -- NULL: not known
  status      INTEGER NOT NULL,
  stream      BOOLEAN NOT NULL,
  estimated   BOOLEAN NOT NULL,
  node        TEXT    NOT NULL,
  key_id      TEXT    NOT NULL,
  person      TEXT    NOT NULL, -- name of the person whose account the key is; empty: it is none
  team        TEXT    NOT NULL,
  org         TEXT    NOT NULL,
  endpoint    TEXT    NOT NULL,
  dialect     TEXT    NOT NULL,
  model       TEXT    NOT NULL,
  target      TEXT    NOT NULL,
  outcome     TEXT    NOT NULL,
  fidelity    TEXT    NOT NULL,
  detail      TEXT    NOT NULL  -- JSON: what no query selects by, such as the attempts; see package detail
)
/* PostgreSQL */ PARTITION BY RANGE (began);
-- A row that is sent twice has the same time and id.
CREATE UNIQUE INDEX requests_once ON requests (began, id);
-- Finds an id in parts of 4,096 rows, one part after the other; see DESIGN.md.
CREATE INDEX requests_id ON requests ((n / 4096), id);
CREATE INDEX requests_of_key ON requests (key_id, began);
CREATE INDEX requests_of_person ON requests (person, began) WHERE person <> '';
-- Requests that are not like most. The lists of others find them soon in the order of time.
CREATE INDEX requests_of_status ON requests (status, began) WHERE status <> 200;
CREATE INDEX requests_of_fidelity ON requests (fidelity, began) WHERE fidelity <> 'exact';
CREATE INDEX requests_of_outcome ON requests (outcome, began) WHERE outcome <> 'answered';

-- The labels of requests by value, in the order of time.
CREATE TABLE labels (
  label      TEXT   NOT NULL,
  value      TEXT   NOT NULL,
  began      BIGINT NOT NULL, -- of the request
  request_id TEXT   NOT NULL,
  PRIMARY KEY (label, value, began, request_id)
)
/* PostgreSQL */ PARTITION BY RANGE (began);

-- The first partition has room for nine days, and the other one rows of all later times, so that no row is refused.
-- Package retention adds partitions.
/* PostgreSQL */ DO $body$
DECLARE
  parent text;
  upper bigint := (floor(extract(epoch FROM clock_timestamp()) / 86400)::bigint + 9) * 86400000000000;
BEGIN
  FOREACH parent IN ARRAY ARRAY['requests', 'labels'] LOOP
    EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (MINVALUE) TO (%s)', parent || '_first', parent, upper);
    EXECUTE format('CREATE TABLE %I PARTITION OF %I DEFAULT', parent || '_rest', parent);
  END LOOP;
END $body$;

-- These functions run with the rights of the account that has migrated. An account with the right to call them can add
-- partitions, and drop those whose rows are all older than a day. A statement that waits for a table blocks all later
-- ones, so they give up soon. The schema is named, so that they use no table of their caller.
/* PostgreSQL */ CREATE OR REPLACE FUNCTION isogloss_add_partition(parent text, lower bigint, upper bigint) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '200ms' AS $body$
DECLARE part text := parent || '_' || to_char(to_timestamp(lower / 1000000000) AT TIME ZONE 'UTC', 'YYYYMMDD');
BEGIN
  IF parent NOT IN ('requests', 'labels') OR lower >= upper THEN
    RAISE EXCEPTION 'no such partition';
  END IF;
  EXECUTE format('LOCK TABLE %I IN SHARE UPDATE EXCLUSIVE MODE', parent);
  IF to_regclass(quote_ident(part)) IS NOT NULL THEN
    RETURN;
  END IF;
  EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', parent || '_rest');
  EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part, parent);
  EXECUTE format('WITH moved AS (DELETE FROM %I WHERE began >= %s AND began < %s RETURNING *) INSERT INTO %I SELECT * FROM moved', parent || '_rest', lower, upper, part);
  EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', parent, part, lower, upper);
END $body$;
/* PostgreSQL */ CREATE OR REPLACE FUNCTION isogloss_drop_partition(part text, before bigint) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '200ms' AS $body$
BEGIN
  IF before > (extract(epoch FROM clock_timestamp()) - 86400)::bigint * 1000000000 THEN
    RAISE EXCEPTION 'rows of the last day are kept';
  END IF;
  PERFORM FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhrelid WHERE p.oid = to_regclass(quote_ident(part))
    AND i.inhparent IN (to_regclass('requests'), to_regclass('labels'))
    AND substring(pg_get_expr(p.relpartbound, p.oid) FROM 'TO \(''?(-?[0-9]+)')::bigint <= before;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  EXECUTE format('DROP TABLE %I', part);
END $body$;
/* PostgreSQL */ DO $body$
BEGIN
  EXECUTE format('ALTER FUNCTION isogloss_add_partition SET search_path = %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION isogloss_drop_partition SET search_path = %I, pg_temp', current_schema());
END $body$;
/* PostgreSQL */ REVOKE ALL ON FUNCTION isogloss_add_partition, isogloss_drop_partition FROM PUBLIC;

-- What accounts have spent, written in the same transaction as the rows.
CREATE TABLE spent (
  account  TEXT   NOT NULL, -- as quota has it: key:ID, team:ORG/TEAM, org:ORG
  hour     BIGINT NOT NULL,
  requests BIGINT NOT NULL,
  unknown  BIGINT NOT NULL, -- requests of which the cost is not known
  cost     BIGINT NOT NULL CHECK (cost >= 0),
  PRIMARY KEY (account, hour)
);

CREATE TABLE spent_minutes ( -- of teams and organisations, for the part of an hour
  account TEXT   NOT NULL,
  minute  BIGINT NOT NULL,
  cost    BIGINT NOT NULL CHECK (cost >= 0),
  PRIMARY KEY (account, minute)
);

-- Sums of the ledger by hour and by day, written in the same transaction as its rows. A question takes whole days from
-- the sums by day and the hours before and after them from the sums by hour (package sums). Rows are added at the end
-- of a table or index that begins with the time, and a range of time is one part of it. In SQLite the table is its
-- primary key.
DEFINE counts
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
  token_1     BIGINT NOT NULL, -- times to the first token: up to 0.1, 0.25, 0.5, 1, 2, 5 and 10 seconds, and longer
  token_2     BIGINT NOT NULL,
  token_3     BIGINT NOT NULL,
  token_4     BIGINT NOT NULL,
  token_5     BIGINT NOT NULL,
  token_6     BIGINT NOT NULL,
  token_7     BIGINT NOT NULL,
  token_8     BIGINT NOT NULL;

CREATE TABLE hours (
  hour        BIGINT NOT NULL,
  org         TEXT   NOT NULL,
  team        TEXT   NOT NULL,
  key_id      TEXT   NOT NULL,
  model       TEXT   NOT NULL,
  target      TEXT   NOT NULL,
  :counts,
  /* SQLite */ PRIMARY KEY (hour, org, team, key_id, model, target)
  /* PostgreSQL */ PRIMARY KEY (org, hour, team, key_id, model, target)
)
/* SQLite */ WITHOUT ROWID;
/* PostgreSQL */ CREATE INDEX hours_hour ON hours (hour, key_id);

-- Without teams and keys.
CREATE TABLE model_hours (
  hour        BIGINT NOT NULL,
  org         TEXT   NOT NULL,
  model       TEXT   NOT NULL,
  target      TEXT   NOT NULL,
  :counts,
  longest     BIGINT NOT NULL, -- took of the longest request; lists skip hours by it
  dearest     BIGINT NOT NULL, -- cost of the dearest request
  PRIMARY KEY (hour, org, model, target)
);

CREATE TABLE days (
  day         BIGINT NOT NULL,
  org         TEXT   NOT NULL,
  team        TEXT   NOT NULL,
  key_id      TEXT   NOT NULL,
  model       TEXT   NOT NULL,
  target      TEXT   NOT NULL,
  :counts,
  PRIMARY KEY (day, org, team, key_id, model, target)
)
/* SQLite */ WITHOUT ROWID;

CREATE TABLE model_days (
  day         BIGINT NOT NULL,
  org         TEXT   NOT NULL,
  model       TEXT   NOT NULL,
  target      TEXT   NOT NULL,
  :counts,
  PRIMARY KEY (day, org, model, target)
)
/* SQLite */ WITHOUT ROWID;

-- Without models and targets.
CREATE TABLE key_days (
  day         BIGINT NOT NULL,
  org         TEXT   NOT NULL,
  team        TEXT   NOT NULL,
  key_id      TEXT   NOT NULL,
  :counts,
  PRIMARY KEY (day, org, team, key_id)
);

-- By label.
CREATE TABLE label_hours (
  label       TEXT   NOT NULL,
  hour        BIGINT NOT NULL,
  org         TEXT   NOT NULL,
  value       TEXT   NOT NULL,
  team        TEXT   NOT NULL,
  key_id      TEXT   NOT NULL,
  model       TEXT   NOT NULL,
  target      TEXT   NOT NULL,
  :counts,
  /* SQLite */ PRIMARY KEY (label, hour, org, value, team, key_id, model, target)
  /* PostgreSQL */ PRIMARY KEY (org, label, hour, value, team, key_id, model, target)
)
/* SQLite */ WITHOUT ROWID;
/* PostgreSQL */ CREATE INDEX label_hours_label ON label_hours (label, hour);

CREATE TABLE value_days (
  label       TEXT   NOT NULL,
  day         BIGINT NOT NULL,
  org         TEXT   NOT NULL,
  value       TEXT   NOT NULL,
  :counts,
  PRIMARY KEY (label, day, org, value)
)
/* SQLite */ WITHOUT ROWID;

CREATE TABLE value_model_days (
  label       TEXT   NOT NULL,
  day         BIGINT NOT NULL,
  org         TEXT   NOT NULL,
  value       TEXT   NOT NULL,
  model       TEXT   NOT NULL,
  target      TEXT   NOT NULL,
  :counts,
  PRIMARY KEY (label, day, org, value, model, target)
)
/* SQLite */ WITHOUT ROWID;

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

-- Which organisation, or key of a configuration file, the ids of what vendors keep belong to.
CREATE TABLE owners (
  id      TEXT   NOT NULL PRIMARY KEY, -- a digest
  owner   TEXT   NOT NULL,
  created BIGINT NOT NULL
);
CREATE INDEX owners_created ON owners (created);

-- Sign-ins of people: device codes that wait for approval, sessions of operators' browsers, and
-- tokens that were revoked before they expire. The store has digests of secrets only, and tokens
-- are sealed with keys that it does not have.
CREATE TABLE sign_ins (
  id      TEXT   NOT NULL PRIMARY KEY, -- digest of the device code, of the session's secret, or of the revoked token
  code    TEXT   NOT NULL,             -- digest of the user code; equal to id for others
  status  TEXT   NOT NULL,             -- pending, approved, denied, session or revoked
  seal    BYTEA  NOT NULL,             -- public key with which tokens are sealed
  tokens  BYTEA  NOT NULL,             -- sealed
  polled  BIGINT NOT NULL,             -- when the device asked last
  expires BIGINT NOT NULL
);
CREATE UNIQUE INDEX sign_ins_code ON sign_ins (code);
CREATE INDEX sign_ins_expires ON sign_ins (expires);

-- Users and groups that identity providers manage by SCIM. A directory is an issuer and the
-- organisation of the operator's key that manages it; the organisation is empty for all.
CREATE TABLE scim_users (
  id          TEXT    NOT NULL PRIMARY KEY,
  issuer      TEXT    NOT NULL,
  org         TEXT    NOT NULL,
  user_name   TEXT    NOT NULL, -- in lower case; empty once the user is deleted, like external_id and data
  external_id TEXT    NOT NULL,
  active      BOOLEAN NOT NULL,
  deleted     BIGINT  NOT NULL, -- 0: it is not. A deleted user still keeps its person out
  data        TEXT    NOT NULL  -- the resource, as JSON
);
CREATE UNIQUE INDEX scim_users_name ON scim_users (issuer, org, user_name) WHERE deleted = 0;
CREATE UNIQUE INDEX scim_users_external ON scim_users (issuer, org, external_id) WHERE external_id <> '';
CREATE INDEX scim_users_directory ON scim_users (issuer, org, deleted, id);

-- The names by which accounts find their users: digests of an issuer and of a value that a user has
-- or had.
CREATE TABLE scim_names (
  name    TEXT   NOT NULL,
  org     TEXT   NOT NULL, -- of the directory
  user_id TEXT   NOT NULL,
  given   BIGINT NOT NULL, -- when the user got it
  PRIMARY KEY (name, org)
);
CREATE INDEX scim_names_user ON scim_names (user_id);

CREATE TABLE scim_groups (
  id          TEXT NOT NULL PRIMARY KEY,
  issuer      TEXT NOT NULL,
  org         TEXT NOT NULL,
  name        TEXT NOT NULL, -- in lower case
  external_id TEXT NOT NULL,
  data        TEXT NOT NULL
);
CREATE UNIQUE INDEX scim_groups_name ON scim_groups (issuer, org, name);

CREATE TABLE scim_members (
  group_id TEXT NOT NULL,
  user_id  TEXT NOT NULL,
  PRIMARY KEY (group_id, user_id)
);
CREATE INDEX scim_members_user ON scim_members (user_id);

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

-- Work that one node does for all. A node that has the lease does it, until the lease ends.
CREATE TABLE leases (
  name   TEXT   NOT NULL PRIMARY KEY,
  holder TEXT   NOT NULL,
  until  BIGINT NOT NULL,
  seen   BIGINT NOT NULL -- when a node was last here, by its clock
);

CREATE TABLE audit (
  n       BIGINT NOT NULL PRIMARY KEY,
  at      BIGINT NOT NULL,
  actor   TEXT   NOT NULL,
  org     TEXT   NOT NULL,
  address TEXT   NOT NULL,
  action  TEXT   NOT NULL,
  object  TEXT   NOT NULL,
  before  TEXT   NOT NULL,
  after   TEXT   NOT NULL,
  detail  TEXT   NOT NULL,
  hash    BYTEA  NOT NULL
);

CREATE TABLE audit_head (
  one  BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
  n    BIGINT NOT NULL,
  hash BYTEA  NOT NULL
);

INSERT INTO revision (one, revision, keys) VALUES (1, 0, 0);
INSERT INTO audit_head (one, n, hash) VALUES (1, 0, '');
INSERT INTO orgs (id, name, blocked, created, limit_requests, limit_tokens, limit_concurrency, budget, budget_window, base, top)
  VALUES ('default', 'default', FALSE, 0, 0, 0, 0, 0, 0, 0, 0);
-- Operators of the whole gateway name no organisation. Every key is in one all the same,
-- so theirs are in this one, which is in no list.
INSERT INTO orgs (id, name, blocked, created, limit_requests, limit_tokens, limit_concurrency, budget, budget_window, base, top)
  VALUES ('', '', FALSE, 0, 0, 0, 0, 0, 0, 0, 0);
