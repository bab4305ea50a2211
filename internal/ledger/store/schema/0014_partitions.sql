-- In PostgreSQL, package partition has divided requests and labels by time before this step.

-- Work that one node does for all. A node that has the lease does it, until the lease ends.
CREATE TABLE leases (
  name   TEXT   NOT NULL PRIMARY KEY,
  holder TEXT   NOT NULL,
  until  BIGINT NOT NULL,
  seen   BIGINT NOT NULL -- when a node was last here, by its clock
);
