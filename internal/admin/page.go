package admin

// answer is what an operation returns.
type answer[T any] struct{ Body T }

func answered[T any](v T) *answer[T] { return &answer[T]{Body: v} }

// nothing is the input of an operation that takes none.
type nothing struct{}

// Page is which part of a list is wanted.
type Page struct {
	After string `query:"after" maxLength:"200" doc:"The next of the page before."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many at most."`
}

// The inputs that others are made of are exported because the library looks into such
// only.

// OrgPath names an organisation.
type OrgPath struct {
	Org string `path:"org" maxLength:"64" pattern:"^[a-z0-9][a-z0-9._-]*$" doc:"The organisation."`
}

// TeamPath names a team.
type TeamPath struct {
	OrgPath
	Team string `path:"team" maxLength:"64" pattern:"^[a-z0-9][a-z0-9._-]*$" doc:"The team."`
}

// KeyPath names a key.
type KeyPath struct {
	Key string `path:"key" pattern:"^[0-9A-Za-z]{22}$" doc:"The id of the key, which is its middle part."`
}
