-- Which organisation, or key of a configuration file, the ids of what vendors keep belong to.
CREATE TABLE owners (
  id      TEXT   NOT NULL PRIMARY KEY, -- a digest
  owner   TEXT   NOT NULL,
  created BIGINT NOT NULL
);
CREATE INDEX owners_created ON owners (created);
