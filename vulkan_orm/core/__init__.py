"""The pure heart: outcomes, budget and policy. No database, clock, chance or IO."""
