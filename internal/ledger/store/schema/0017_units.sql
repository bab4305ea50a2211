-- Sums by hour of the units of usage that have no column in the other tables of sums, with and without labels: those of
-- all requests have an empty label. amount is a number of pieces or tokens.
CREATE TABLE unit_hours (
  label       TEXT   NOT NULL,
  hour        BIGINT NOT NULL,
  org         TEXT   NOT NULL,
  value       TEXT   NOT NULL,
  team        TEXT   NOT NULL,
  key_id      TEXT   NOT NULL,
  model       TEXT   NOT NULL,
  target      TEXT   NOT NULL,
  unit        TEXT   NOT NULL,
  amount      BIGINT NOT NULL,
  PRIMARY KEY (label, hour, org, value, team, key_id, model, target, unit)
)
/* SQLite */ WITHOUT ROWID;
