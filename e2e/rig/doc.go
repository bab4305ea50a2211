// Package rig is what the end-to-end tests share: the built gateway as a process, a
// scripted upstream that plays the vendors' servers in their four dialects, clients
// in other languages, and the page that says what a run has done.
package rig
