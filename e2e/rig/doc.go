// Package rig is shared by the end-to-end tests: the built gateway as a process, a
// scripted upstream in Chat, Responses, Messages, Gemini and Converse, clients in other languages, and the
// page with the results.
package rig
