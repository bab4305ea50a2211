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

-- The user of a person's account, whether it must exist, and since when it keeps the person out (0:
-- it does not).
ALTER TABLE keys ADD COLUMN scim_name TEXT NOT NULL DEFAULT '';
ALTER TABLE keys ADD COLUMN scim_required BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE keys ADD COLUMN removed BIGINT NOT NULL DEFAULT 0;
