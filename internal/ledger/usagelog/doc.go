// Package usagelog sends the usage of requests to a log, Kafka or NATS JetStream, and reads it there: the
// events, the messages that carry them, and the sink of the spool.
package usagelog
