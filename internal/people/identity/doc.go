// Package identity verifies the tokens of identity providers and decides whom they admit.
//
// A token is a signed JWT of a configured issuer. Its signature is checked with the issuer's keys,
// which are fetched from the address in the issuer's discovery document, from a configured address or
// from a file. Rules map the claims of a token to an organisation, a team, models, limits and a role.
//
// # Cost
//
// A token is verified once. The result is cached by the digest of the token until the token expires,
// so that a known token costs one SHA-256 and no network.
//
// # Availability
//
// Keys are fetched at the first token and every hour. While the issuer does not respond, the keys
// that were fetched last are used, for up to a day. A token with an unknown key id waits for the next
// fetch, and there is at most one fetch per second: a new key works at once, and invented ids put
// little load on the issuer.
package identity
