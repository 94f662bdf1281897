"""Who may do what: credentials, what they allow, and where they come from (design, section 9)."""
