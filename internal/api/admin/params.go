package admin

// noInput is the input of an operation without parameters and body.
type noInput struct{}

// page selects a part of a list.
type page struct {
	After string `query:"after" maxLength:"200" doc:"The next of the previous page."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Maximum number of items."`
}

// orgPath identifies an organisation.
type orgPath struct {
	Org string `path:"org" maxLength:"128" pattern:"^[^/\\x00-\\x1f\\x7f]*[^./\\x00-\\x1f\\x7f][^/\\x00-\\x1f\\x7f]*$" doc:"The organisation."`
}

// tenantPath identifies an organisation or, in a route that has it, a team.
type tenantPath struct {
	orgPath
	Team string `path:"team" maxLength:"128" pattern:"^[^/\\x00-\\x1f\\x7f]*[^./\\x00-\\x1f\\x7f][^/\\x00-\\x1f\\x7f]*$" doc:"The team."`
}

// keyPath identifies a key, or the account of a person.
type keyPath struct {
	Key string `path:"key" pattern:"^([0-9A-Za-z]{22}|person_[0-9A-Za-z_-]{22})$" doc:"The id of the key, its middle part, or of a person."`
}
