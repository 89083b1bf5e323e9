// Package config turns CAPACITY_* variables into Settings, or into one message
// that lists every fault at once.
//
// Precedence: the environment, then the cell file that CAPACITY_CELL names,
// then the default. A variable that is set but empty (or blank) counts as not
// set, so an emptied variable gives the cell file or the default back. Spaces
// around values and around the items of lists are dropped.
//
// The table in table.go is the only place that knows a variable: its row holds
// the meaning, the unit, the range, the default and the parser. Variables, the
// refusal of unknown names and .env.example all come from it.
//
// Nothing here contacts a server, and nothing but what Load is given is read,
// except the two files that CAPACITY_API_KEY_FILE and CAPACITY_CA_FILE name. No
// OPENAI_* variable is ever looked at.
package config
