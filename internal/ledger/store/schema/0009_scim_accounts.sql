DROP INDEX CONCURRENTLY IF EXISTS keys_scim_name;
CREATE INDEX CONCURRENTLY keys_scim_name ON keys (scim_name) WHERE scim_name <> '';
