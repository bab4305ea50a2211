// Package signin signs people in at their identity provider, in the browser, by authorization code
// with PKCE. It has three uses:
//
//   - Devices. Command-line clients get tokens by the device flow (RFC 8628): the client shows a code,
//     the person enters it on a page of the gateway and signs in, and the client polls for the tokens.
//     The gateway is the authorization server of the client (RFC 8414) and a client of the provider.
//   - Renewal and revocation of these tokens.
//   - Sessions of operators' browsers on the admin port. A session also begins with an operator's key, without
//     an identity provider; it has no key then, but the proof that the browser had it.
//   - Sessions of clients' browsers on the client port, for the page My usage. They have another cookie, and open
//     nothing but this page and its endpoints.
//
// The tokens are those of the identity provider, so that internal/people/identity verifies them like others.
// A sign-in that waits, and a session, are rows of the store. The store has digests of their secrets
// and tokens that are sealed with a key made of the secret: it reveals nothing that could be used.
package signin
