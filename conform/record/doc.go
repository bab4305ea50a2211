// Package record writes an exchange that has happened as a case of the conformance
// corpus. Unless it is told otherwise it leaves nothing readable of what was said:
// texts are masked, media replaced, ids renumbered, on all sides alike, so that the
// case still holds. What is not known to be harmless is masked.
package record
