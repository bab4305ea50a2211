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
