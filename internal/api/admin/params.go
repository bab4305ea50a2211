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
	Org string `path:"org" maxLength:"64" pattern:"^[a-z0-9][a-z0-9._-]*$" doc:"The organisation."`
}

// teamPath identifies a team.
type teamPath struct {
	orgPath
	Team string `path:"team" maxLength:"64" pattern:"^[a-z0-9][a-z0-9._-]*$" doc:"The team."`
}

// keyPath identifies a key, or the account of a person.
type keyPath struct {
	Key string `path:"key" pattern:"^([0-9A-Za-z]{22}|person_[0-9A-Za-z_-]{22})$" doc:"The id of the key, its middle part, or of a person."`
}
