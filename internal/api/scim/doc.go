// Package scim lets an identity provider manage the people of the gateway by SCIM 2.0 (RFC 7643, RFC
// 7644): the part that Entra ID and Okta use. A user who is inactive or deleted keeps the person out,
// whatever tokens the person has. Groups are stored and have no effect.
//
// A directory is an issuer and the organisation that the operator's key is bound to. Keys of one
// organisation neither see nor change the directory of another one.
package scim
