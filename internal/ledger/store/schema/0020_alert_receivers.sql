-- An alert has a row for each of its receivers, by its name in the configuration: empty for that of alerts.url. The rows
-- have the same event, which is empty in those of older versions. type is empty for a budget; detail has what other alerts
-- are about, as JSON.
ALTER TABLE alerts ADD COLUMN receiver TEXT NOT NULL DEFAULT '';
ALTER TABLE alerts ADD COLUMN event TEXT NOT NULL DEFAULT '';
ALTER TABLE alerts ADD COLUMN type TEXT NOT NULL DEFAULT '';
ALTER TABLE alerts ADD COLUMN detail TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX alerts_event ON alerts (event, receiver) WHERE event <> '';
