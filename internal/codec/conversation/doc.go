// Package conversation keeps what a later request of the same conversation needs
// and its client does not send again:
//
//   - Seals: the signed or encrypted reasoning of responses that call tools. Some
//     vendors reject the next request without it, and many clients drop it.
//   - Responses: requests and responses that a client refers to by id
//     (previous_response_id, item_reference) on upstreams that store nothing.
//   - Owners: which tenant may use the id of an object that a vendor stores.
//   - Pins: which target answered a conversation. Reasoning that was sealed under
//     one credential is useless under another.
//
// Everything is in the memory of this process and bounded by a TTL, a number of
// entries and a number of bytes. Owners are also in the store, if there is one. Only the
// caller for which an entry was stored can find it.
package conversation

// Caller is the client that entries belong to.
type Caller struct {
	ID     string // of its API key
	Tenant string // for which its entries count when memory runs out
}
