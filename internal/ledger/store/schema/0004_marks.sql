-- A mark is a random text that each change of a key, a team or an organisation writes with its
-- revision. A database that was restored or set back to an older state, and changed since, has
-- other marks than a gateway remembers.
CREATE TABLE marks (
  revision BIGINT NOT NULL PRIMARY KEY,
  mark     TEXT   NOT NULL
);
