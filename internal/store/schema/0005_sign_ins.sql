-- Sign-ins of people: device codes that wait for approval, and sessions of operators' browsers. The
-- store has digests of their secrets only, and tokens are sealed with keys that it does not have.
CREATE TABLE sign_ins (
  id      TEXT   NOT NULL PRIMARY KEY, -- digest of the device code, or of the session's secret
  code    TEXT   NOT NULL,             -- digest of the user code; equal to id for a session
  status  TEXT   NOT NULL,             -- pending, approved, denied or session
  seal    BYTEA  NOT NULL,             -- public key with which tokens are sealed
  tokens  BYTEA  NOT NULL,             -- sealed
  polled  BIGINT NOT NULL,             -- when the device asked last
  expires BIGINT NOT NULL
);
CREATE UNIQUE INDEX sign_ins_code ON sign_ins (code);
CREATE INDEX sign_ins_expires ON sign_ins (expires);
