-- Sums of hours with fewer columns, so that most questions read few rows: by model without keys, and of
-- whole days by key without models. They are written in the same transaction as the rows.
CREATE TABLE model_hours (
  hour        BIGINT NOT NULL,
  org         TEXT   NOT NULL,
  model       TEXT   NOT NULL,
  target      TEXT   NOT NULL,
  requests    BIGINT NOT NULL,
  unknown     BIGINT NOT NULL,
  estimated   BIGINT NOT NULL,
  input       BIGINT NOT NULL,
  cache_read  BIGINT NOT NULL,
  cache_write BIGINT NOT NULL,
  output      BIGINT NOT NULL,
  reasoning   BIGINT NOT NULL,
  cost        BIGINT NOT NULL,
  errors      BIGINT NOT NULL,
  refused     BIGINT NOT NULL,
  token_1     BIGINT NOT NULL,
  token_2     BIGINT NOT NULL,
  token_3     BIGINT NOT NULL,
  token_4     BIGINT NOT NULL,
  token_5     BIGINT NOT NULL,
  token_6     BIGINT NOT NULL,
  token_7     BIGINT NOT NULL,
  token_8     BIGINT NOT NULL,
  longest     BIGINT NOT NULL, -- took of the longest request; lists skip hours by it
  dearest     BIGINT NOT NULL, -- cost of the dearest request
  PRIMARY KEY (hour, org, model, target)
);
INSERT INTO model_hours SELECT hour, org, model, target, sum(requests), sum(unknown), sum(estimated), sum(input), sum(cache_read), sum(cache_write), sum(output), sum(reasoning), sum(cost), sum(errors), sum(refused), sum(token_1), sum(token_2), sum(token_3), sum(token_4), sum(token_5), sum(token_6), sum(token_7), sum(token_8),
  9223372036854775807, 9223372036854775807 FROM hours GROUP BY hour, org, model, target;

CREATE TABLE key_days (
  day         BIGINT NOT NULL,
  org         TEXT   NOT NULL,
  team        TEXT   NOT NULL,
  key_id      TEXT   NOT NULL,
  requests    BIGINT NOT NULL,
  unknown     BIGINT NOT NULL,
  estimated   BIGINT NOT NULL,
  input       BIGINT NOT NULL,
  cache_read  BIGINT NOT NULL,
  cache_write BIGINT NOT NULL,
  output      BIGINT NOT NULL,
  reasoning   BIGINT NOT NULL,
  cost        BIGINT NOT NULL,
  errors      BIGINT NOT NULL,
  refused     BIGINT NOT NULL,
  token_1     BIGINT NOT NULL,
  token_2     BIGINT NOT NULL,
  token_3     BIGINT NOT NULL,
  token_4     BIGINT NOT NULL,
  token_5     BIGINT NOT NULL,
  token_6     BIGINT NOT NULL,
  token_7     BIGINT NOT NULL,
  token_8     BIGINT NOT NULL,
  PRIMARY KEY (day, org, team, key_id)
);
INSERT INTO key_days SELECT hour / 24, org, team, key_id, sum(requests), sum(unknown), sum(estimated), sum(input), sum(cache_read), sum(cache_write), sum(output), sum(reasoning), sum(cost), sum(errors), sum(refused), sum(token_1), sum(token_2), sum(token_3), sum(token_4), sum(token_5), sum(token_6), sum(token_7), sum(token_8)
  FROM hours GROUP BY hour / 24, org, team, key_id;

-- Requests that are not like most. The lists of others find them soon in the order of time.
CREATE INDEX requests_of_status ON requests (status, began) WHERE status <> 200;
CREATE INDEX requests_of_fidelity ON requests (fidelity, began) WHERE fidelity <> 'exact';
CREATE INDEX requests_of_outcome ON requests (outcome, began) WHERE outcome <> 'answered';
